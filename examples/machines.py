"""Machines by name, their algebra, and a shortest word between two of them."""

from statewise.machines import analyse, distinguish, machine


def main() -> None:
    for expression in ["modular_addition(5)", "symmetric(4)", 'regex("(ab)*")', "modular_arithmetic(5)"]:
        m = machine(expression)
        algebra = analyse(m)
        facts = f"group {algebra.group}, solvable {algebra.solvable}"
        print(f"{m.name:24} {m.states:3} states, monoid of {algebra.monoid}, {facts}")

    four, seven = machine("tomita(4)"), machine("tomita(7)")
    word = distinguish(four, seven)
    assert word is not None
    print("tomita 4 and 7 differ on", " ".join(four.decode(word)), "->", four.answer(word), "and", seven.answer(word))


if __name__ == "__main__":
    main()
