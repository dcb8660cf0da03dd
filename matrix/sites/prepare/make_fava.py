"""A ledger of a year."""

from pathlib import Path

lines = ['option "title" "books"', 'option "operating_currency" "EUR"']
for name in ("Assets:Bank", "Expenses:Food", "Income:Work"):
    lines.append(f"2025-01-01 open {name}")
for day in range(1, 29):
    for month in range(1, 13):
        date = f"2025-{month:02}-{day:02}"
        lines.append(f'{date} * "Shop {day}" ""\n  Expenses:Food  {day}.50 EUR\n  Assets:Bank')
Path("books.beancount").write_text("\n\n".join(lines) + "\n")
Path("documents").mkdir()
