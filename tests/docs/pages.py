"""Pages that are generated from code: `python -m tests.docs.pages` writes them anew."""

import sys
from importlib import import_module
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
NOTE = "<!-- Generated: `make docs` writes this page anew. -->\n\n"

# Page -> the function that renders it.
PAGES = {
    "../manent.yml.example": "manent_server.settings.example:render",
    "reference/api.md": "manent_server.api.reference:render",
    "reference/cases.md": "tests.docs.cases:render",
    "reference/cli.md": "manent_cli.reference:render",
    "reference/events.md": "manent_server.domain.cdevents:render_reference",
    "reference/errors.md": "manent_server.api.reference:render_errors",
    "reference/hooks.md": "manent_server.sdk.reference:render",
    "reference/manent-yml.md": "manent_server.settings.reference:render",
    "reference/metrics.md": "manent_server.observability.metrics:render_reference",
    "reference/openapi.json": "manent_server.api.reference:render_openapi",
    "reference/server-cli.md": "tests.docs.server_cli:render",
}


def render(page: str) -> str:
    """What a page should say."""
    module, _, function = PAGES[page].partition(":")
    text: str = getattr(import_module(module), function)()
    return (NOTE if page.endswith(".md") else "") + text.strip() + "\n"


def stored(page: str) -> str:
    """What a page says; empty when there is none."""
    path = DOCS / page
    return path.read_text() if path.exists() else ""


def main() -> int:
    """Write every page that has changed."""
    for page in PAGES:
        text = render(page)
        if text != stored(page):
            (DOCS / page).write_text(text)
            sys.stdout.write(f"wrote {(DOCS / page).resolve().relative_to(DOCS.parent)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
