"""Which lines of a capture belong together, followed over any number of panes.

The counterparts of a line are the lines that can be reached from it going up, towards the source, and those that can
be reached going down, towards the machine, each without turning round. `page/links.js` follows the same rules for the
reader; a test in a browser holds the two against each other.
"""

from collections import defaultdict

from minicompile.lowering.captured import Capture

Line = tuple[str, int]  # a pane's id and a line's number from 1

# Two kinds of link that this module adds to those of a capture.
BODY = "body"  # from a whole to its parts, followed downwards only, and only when the walk sets out from a whole
PART = "part"  # from a scheduler node to its group, followed upwards only: the node is no more than one of its parts
WHOLES = ("ir_before", "ir_after", "groups")  # panes whose lines stand for wholes


def body_links(capture: Capture) -> list[dict]:
    """Links from a scheduler node and a group to what is inside them, as a capture's own `links` are written.

    From the first line of a scheduler node in Inductor's IR to the operations of its loop body; from the lines of a
    group to the kernel lines of these operations. A kernel line belongs to its group, but not to all that the group was
    made from, so these links are not followed upwards.
    """
    written = defaultdict(set)  # kernel lines by the operation's line in ir_after
    for link in capture["links"]:
        if link["kind"] == "operation" and link["from"].startswith("ir_after"):
            for operation, line in link["pairs"]:
                written[link["from"], operation].add(line)
    links = []
    for graph in capture["graphs"]:
        operations, members, parts = set(), set(), set()
        code: set = set()
        group_of = {member: group["line"] for group in graph["groups"] for member in group["members"]}
        after, groups = graph["panes"]["ir_after"], graph["panes"]["groups"]
        for node in graph["scheduler_nodes"]:
            first, own, group = node["lines"]["after"], node["lines"]["groups"], group_of.get(node["name"])
            if first and group:
                parts.add((first, group))
            if own and group:
                members.add((group, own))
            for one in node["operations"]:
                if first and one["line"]:
                    operations.add((first, one["line"]))
                for whole in {own, group} - {None}:
                    code.update((whole, line) for line in written[after, one["line"] or 0])
        for start, to, kind, pairs in (
            (after, after, BODY, operations),
            (groups, graph["panes"]["code"], BODY, code),
            (groups, groups, BODY, members),
            (after, groups, PART, parts),
        ):
            if pairs:
                links.append({"from": start, "to": to, "kind": kind, "pairs": sorted(map(list, pairs))})
    return links


class Links:
    """The links of one capture, to be followed up and down."""

    def __init__(self, capture: Capture) -> None:
        self._up: dict[Line, list[tuple[Line, str]]] = defaultdict(list)
        self._down: dict[Line, list[tuple[Line, str]]] = defaultdict(list)
        self._kinds = {pane["id"]: pane["kind"] for pane in capture["panes"]}
        for link in [*capture["links"], *body_links(capture)]:
            for start, end in link["pairs"]:
                if link["kind"] != PART:
                    self._down[link["from"], start].append(((link["to"], end), link["kind"]))
                if link["kind"] != BODY:
                    self._up[link["to"], end].append(((link["from"], start), link["kind"]))

    def _reach(self, start: Line, edges: dict, kinds: set[str] | None) -> set[Line]:
        reached, waiting = set(), [start]
        whole = self._kinds[start[0]] in WHOLES
        while waiting:
            for line, kind in edges.get(waiting.pop(), ()):
                if line not in reached and (kinds is None or kind in kinds) and (whole or kind != BODY):
                    reached.add(line)
                    waiting.append(line)
        return reached

    def up(self, line: Line, kinds: set[str] | None = None) -> set[Line]:
        """Lines that this one was made from; with `kinds`, over links of these kinds only."""
        return self._reach(line, self._up, kinds)

    def down(self, line: Line, kinds: set[str] | None = None) -> set[Line]:
        """Lines that were made from this one; with `kinds`, over links of these kinds only."""
        return self._reach(line, self._down, kinds)

    def counterparts(self, line: Line) -> set[Line]:
        """All lines that belong to this one, without itself."""
        return (self.up(line) | self.down(line)) - {line}
