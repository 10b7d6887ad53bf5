"""Who reaches whom: the two troubles that Ray does not explain, no connection at all, and one that drops after half a minute."""

from __future__ import annotations

from collections.abc import Iterator

from include.regression.config import Cluster, Node
from include.regression.preflight.findings import Finding, error
from include.regression.preflight.need import Need
from include.regression.preflight.observed import Chain, NodeFacts, Observed
from include.regression.preflight.pair_checks import Asked
from include.regression.preflight.ports import Group, groups

MEANINGS = {
    "timeout": "nothing answers (a firewall that drops)",
    "refused": "refused (a firewall that rejects)",
    "unreachable": "no route, or a firewall that rejects",
}


def targets(cluster: Cluster, source: str, nodes: list[Observed]) -> dict[str, dict[str, object]]:
    """Say what a node is to connect to: the groups' ports of every other node that listens."""
    addresses = {node.name: node.address for node in cluster.nodes}
    return {
        seen.node: {
            "address": addresses[seen.node],
            "ports": [port for group in groups(cluster, seen.node, seen.chosen_port) for port in group.tried],
        }
        for seen in nodes
        if seen.node != source and seen.chosen_port is not None
    }


def check_network(need: Need, asked: Asked) -> Iterator[Finding]:
    """Yield one finding per node that others cannot reach and kind of ports."""
    for node, seen, facts in asked:
        blocked: dict[tuple[str, ...], list[tuple[Node, Observed, NodeFacts]]] = {}
        ways = groups(need.cluster, node.name, seen.chosen_port)
        for other in asked:
            failing = tuple(group.name for group in ways if _status(other[1], node.name, group))
            if failing:
                blocked.setdefault(failing, []).append(other)
        for failing, sources in blocked.items():
            shut = [group for group in ways if group.name in failing]
            yield _finding((node, seen, facts), sources, shut, len(shut) == len(ways))


def _status(source: Observed, node: str, group: Group) -> str | None:
    """What came of connecting to a group's ports: None if all went well, else the worst."""
    link = source.links.get(node, {})
    return next((status for port in group.tried if (status := link.get(port, "ok")) != "ok"), None)


def _finding(
    node: tuple[Node, Observed, NodeFacts],
    sources: list[tuple[Node, Observed, NodeFacts]],
    shut: list[Group],
    all_shut: bool,
) -> Finding:
    target, seen, facts = node
    names = ", ".join(source.name for source, _, _ in sources)
    status = _status(sources[0][1], target.name, shut[0]) or "timeout"
    back = [source.name for source, _, _ in sources if _reaches(seen, source.name)]
    way = f"; one way: {target.name} does reach {', '.join(back)}" if back and all_shut else ""
    if all_shut:
        cause = f"{names} cannot reach {target.name} at {target.address} on any port: {MEANINGS[status]}{way}"
    else:
        kinds = " and ".join(group.name for group in shut)
        opens = ", ".join(_opens(shut))
        cause = f"{names}: {target.name} answers at {target.address}, but not on {kinds} ({opens}): {MEANINGS[status]}"
    place, fix = _fix(target, facts, sources, shut)
    return error(place, "network", cause, fix)


def _reaches(seen: Observed, name: str) -> bool:
    link = seen.links.get(name)
    return bool(link) and all(status == "ok" for status in (link or {}).values())


def _opens(shut: list[Group]) -> list[str]:
    return [port for group in shut for port in group.opens]


def _fix(target: Node, facts: NodeFacts, sources: list[tuple[Node, Observed, NodeFacts]], shut: list[Group]) -> tuple[str, str]:
    """Say on which node to open what: where the rules that can drop were seen, the target's input first."""
    addresses = [source.address for source, _, _ in sources]
    ports = ", ".join(_opens(shut))
    if facts.firewall.firewalld:
        adds = " ".join(f"--add-source={address}" for address in addresses)
        return target.name, f"on {target.name}: `firewall-cmd --permanent --zone=trusted {adds} && firewall-cmd --reload`"
    incoming = [chain for chain in facts.firewall.chains if chain.hook == "input"]
    if incoming and facts.firewall.tool == "nft":
        source = addresses[0] if len(addresses) == 1 else f"{{ {', '.join(addresses)} }}"
        rules = [_rule(chain, f"ip saddr {source}", ports) for chain in incoming]
        return target.name, f"on {target.name}: `{' && '.join(rules)}`"
    if incoming:
        spread = ports.replace(" ", "").replace("-", ":")
        rule = f"iptables -I INPUT -s {','.join(addresses)} -p tcp -m multiport --dports {spread} -j ACCEPT"
        return target.name, f"on {target.name}: `{rule}`"
    for source_node, _, source_facts in sources:
        outgoing = [chain for chain in source_facts.firewall.chains if chain.hook == "output"]
        if outgoing and source_facts.firewall.tool == "nft":
            rules = [_rule(chain, f"ip daddr {target.address}", ports) for chain in outgoing]
            return source_node.name, f"on {source_node.name}: `{' && '.join(rules)}`"
    return target.name, (
        f"let TCP from {', '.join(addresses)} to {target.address} through on ports {ports}: no rule of these nodes drops it "
        f"(or they could not be read), so look at the network between them (security group, switch)"
    )


def _rule(chain: Chain, who: str, ports: str) -> str:
    return f"nft 'insert rule {chain.family} {chain.table} {chain.chain} {who} tcp dport {{ {ports} }} accept'"
