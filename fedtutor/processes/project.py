"""What FLARE's provisioning is told: who takes part, where the server is, how messages travel."""

import yaml

ADMIN = "admin@nvidia.com"  # the name that FLARE's own tools look for
PORT = 8002


def project_file(clients: int, *, port: int = PORT, host: str = "localhost") -> str:
    """FLARE's description of a federation: server, administrator and sites, gRPC with mutual TLS.

    For several machines: `host` is the name by which sites reach the server.
    """
    builders = "nvflare.lighter.impl."
    people = [
        {
            "name": "server",
            "type": "server",
            "org": "fedtutor",
            "fed_learn_port": port,
            "default_host": host,
            "host_names": ["localhost", host],
        },
        {"name": ADMIN, "type": "admin", "org": "fedtutor", "role": "project_admin"},
    ]
    people += [
        {"name": f"site-{n}", "type": "client", "org": "fedtutor"} for n in range(1, clients + 1)
    ]
    return yaml.safe_dump(
        {
            "api_version": 3,
            "name": "fedtutor",
            "description": "a process for every client",
            "participants": people,
            "builders": [
                {
                    "path": builders + "workspace.WorkspaceBuilder",
                    "args": {"template_file": ["master_template.yml"]},
                },
                {
                    "path": builders + "static_file.StaticFileBuilder",
                    "args": {"config_folder": "config", "scheme": "grpc"},
                },
                {"path": builders + "cert.CertBuilder"},
                {"path": builders + "signature.SignatureBuilder"},
            ],
        },
        sort_keys=False,
    )
