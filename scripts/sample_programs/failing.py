"""Fails, on purpose, some calls deep, with one exception on top of another."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Order:
    number: str
    lines: list[dict[str, str]]


class PriceError(Exception):
    pass


def unit_price(line: dict[str, str]) -> float:
    return float(line["unit_price"]) * int(line["quantity"])


def total(order: Order) -> float:
    prices = []
    for line in order.lines:
        try:
            prices.append(unit_price(line))
        except (KeyError, ValueError) as error:
            raise PriceError(f"order {order.number}: cannot price {line['article']!r}") from error
    return sum(prices)


def settle(orders: list[Order]) -> dict[str, float]:
    return {order.number: total(order) for order in orders}


def retry(orders: list[Order], attempts: int) -> dict[str, float]:
    try:
        return settle(orders)
    except PriceError:
        if attempts == 0:
            raise
        return retry(orders, attempts - 1)


if __name__ == "__main__":
    good = Order("4711-001", [{"article": "lamp", "unit_price": "19.50", "quantity": "2"}])
    bad = Order("4711-002", [{"article": "shade", "unit_price": "3,00", "quantity": "1"}])
    retry([good, bad], attempts=2)
