"""Protocols as machines."""

import numpy as np

from statewise.machines.machine import Machine

_TCP_EVENTS = ("passive open", "active open", "close", "SYN", "SYN+ACK", "ACK", "FIN", "RST", "timeout")
# from RFC 9293, Figure 5, and for resets section 3.10.7; an event that is not listed changes nothing
_TCP_MOVES = {
    "CLOSED": {"passive open": "LISTEN", "active open": "SYN-SENT"},
    "LISTEN": {"active open": "SYN-SENT", "SYN": "SYN-RECEIVED", "close": "CLOSED"},
    "SYN-SENT": {"SYN": "SYN-RECEIVED", "SYN+ACK": "ESTABLISHED", "close": "CLOSED", "RST": "CLOSED"},
    "SYN-RECEIVED": {"ACK": "ESTABLISHED", "close": "FIN-WAIT-1", "RST": "LISTEN"},
    "ESTABLISHED": {"close": "FIN-WAIT-1", "FIN": "CLOSE-WAIT", "RST": "CLOSED"},
    "FIN-WAIT-1": {"ACK": "FIN-WAIT-2", "FIN": "CLOSING", "RST": "CLOSED"},
    "FIN-WAIT-2": {"FIN": "TIME-WAIT", "RST": "CLOSED"},
    "CLOSE-WAIT": {"close": "LAST-ACK", "RST": "CLOSED"},
    "CLOSING": {"ACK": "TIME-WAIT", "RST": "CLOSED"},
    "LAST-ACK": {"ACK": "CLOSED", "RST": "CLOSED"},
    "TIME-WAIT": {"timeout": "CLOSED", "RST": "CLOSED"},
}


def tcp() -> Machine:
    """Return the states of a TCP connection (RFC 9293): passive open, SYN, ACK, FIN -> CLOSE-WAIT."""
    states = tuple(_TCP_MOVES)
    number = {name: q for q, name in enumerate(states)}
    delta = [[number[moves.get(event, state)] for event in _TCP_EVENTS] for state, moves in _TCP_MOVES.items()]
    return Machine(np.array(delta), alphabet=_TCP_EVENTS, output_names=states, state_names=states, name="tcp")
