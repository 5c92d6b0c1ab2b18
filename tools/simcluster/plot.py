# SPDX-License-Identifier: Apache-2.0
"""Two plots as SVG, without a library: bars of shares, and ranges of seconds."""
import html

ROW, LEFT, WIDTH, HEAD = 16, 150, 430, 44
COLOURS = ("#1f6f8b", "#c8553d", "#e3a857", "#8a8d91", "#588b5c", "#7a5c99")


def text(x, y, what, anchor="start", size=11):
    return (f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}" fill="#333">'
            f'{html.escape(what)}</text>')


def page(title, height, parts):
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 60}" height="{height}" '
                      f'font-family="sans-serif" role="img"><title>{html.escape(title)}</title>',
                      f'<rect width="100%" height="100%" fill="white"/>', text(8, 18, title, size=13), *parts,
                      "</svg>"]) + "\n"


def bars(title, groups):
    """groups: [(name, [(series, share 0..1)])]."""
    parts, y = [], HEAD
    for name, rows in groups:
        parts.append(text(8, y + 11, name))
        for k, (series, share) in enumerate(rows):
            parts.append(text(LEFT - 6, y + 11, series, "end", 9))
            parts.append(f'<rect x="{LEFT}" y="{y + 2}" width="{max(1, share * WIDTH):.0f}" height="{ROW - 5}" '
                         f'fill="{COLOURS[k % len(COLOURS)]}"/>')
            parts.append(text(LEFT + share * WIDTH + 4, y + 11, f"{100 * share:.0f} %", size=9))
            y += ROW
        y += 8
    return page(title, y + 8, parts)


def ranges(title, rows, bound, unit="s"):
    """rows: [(name, p50, p90)]; a line at `bound`."""
    top = max([r[2] for r in rows] + [bound]) * 1.1
    at = lambda v: LEFT + v / top * WIDTH  # noqa: E731
    parts, y = [f'<line x1="{at(bound):.0f}" y1="{HEAD - 14}" x2="{at(bound):.0f}" y2="{HEAD + ROW * len(rows)}" '
                'stroke="#c8553d" stroke-dasharray="4 3"/>',
                text(at(bound), HEAD - 17, f"bar: p90 {bound:g} {unit}", "middle", 9)], HEAD
    for name, p50, p90 in rows:
        parts.append(text(LEFT - 6, y + 11, name, "end"))
        parts.append(f'<line x1="{at(p50):.0f}" y1="{y + 7}" x2="{at(p90):.0f}" y2="{y + 7}" stroke="{COLOURS[0]}" '
                     'stroke-width="5"/>')
        parts.append(f'<circle cx="{at(p50):.0f}" cy="{y + 7}" r="5" fill="{COLOURS[0]}"/>')
        parts.append(text(at(p90) + 8, y + 11, f"{p50:.1f} to {p90:.1f} {unit}", size=9))
        y += ROW
    return page(title, y + 16, parts)
