"""What was found for a claim, as HTML."""


def scoped_table(table, *, index: bool | None = None) -> str:
    """A DataFrame as HTML whose header cells say what they head, for screen readers."""
    index = type(table.index).__name__ != "RangeIndex" if index is None else index
    body = table.to_html(index=index, border=0, float_format=lambda value: f"{value:.4g}")
    head, end, rest = body.partition("</thead>")
    return head.replace("<th>", '<th scope="col">') + end + rest.replace("<th>", '<th scope="row">')
