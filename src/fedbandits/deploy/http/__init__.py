"""A deployed agent over HTTP, for products that are not written in Python: `fedbandits agent serve`.

`configuration` and `access` read what an operator writes and need nothing beyond the library. `listening` starts and
stops, and `connections` bounds what those who connect can take. A request then passes the `door` (token, load, meter),
its `body` is read within limits, `models` say what is in it, `app` asks the agent, and `refusals` are how anything that
is not done is told; `service` puts them together. FastAPI, uvicorn and prometheus-client come with the extra `deploy`.
"""
