"""A board of Dash over a DataFrame that is made at import."""

from __future__ import annotations

import pandas as pd
import plotly.express as px
from dash import Dash, dcc, html

FRAME = pd.DataFrame(
    {
        "town": [f"town {n % 300}" for n in range(60_000)],
        "label": [f"sale {n}" for n in range(60_000)],
        "price": [float(n % 997) for n in range(60_000)],
    }
)

app = Dash(__name__)
server = app.server


def layout():
    top = FRAME.groupby("town", as_index=False)["price"].mean().head(40)
    return html.Div([html.H1("Prices"), dcc.Graph(figure=px.bar(top, x="town", y="price"))])


app.layout = layout


@server.get("/search/<text>")
def search(text: str):
    found = FRAME[FRAME["label"].str.endswith(text)]
    return found.head(20).to_html()
