"""Where pixels come from: installed packages, files of a user, downloads with a checksum."""
