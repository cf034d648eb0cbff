"""A report stands inside the front door as HTML, with its folded parts folded."""

from pathlib import Path

from minilab.site.contents import report_html


def rendered(folder: Path, text: str) -> str:
    path = folder / "report.md"
    path.write_text(text)
    return report_html(str(path), str(folder / "lab.html"))


def test_a_folded_part_stays_folded(tmp_path: Path):
    page = rendered(tmp_path, "<details><summary>A *b*</summary>\n\n| a |\n| --- |\n| 1 |\n\n</details>\n\nafter\n")
    assert page.startswith("<details><summary>A <em>b</em></summary>")
    assert page.index("<table>") < page.index("</details>") < page.index("after")


def test_other_html_stays_text(tmp_path: Path):
    page = rendered(tmp_path, "<script>x</script>\n\n<details open><summary>A</summary>\n")
    assert "<script>" not in page
    assert "<details" not in page
