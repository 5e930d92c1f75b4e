"""A federation of deployed agents over Flower.

What is said, counted, checked and written down is decided without Flower (`post`, `desk`, `carrier`,
`expected_answers`, `inspection`, `honesty`, `meaning`, `past`, `book`, `serving`, `watching`, `inquest`, `recovery`,
`coordinator`); Flower carries the bytes (`grid`, `server_app`, `client_app`, `node`, `timing`), and `launch` starts and
stops a whole federation on one machine. Only the latter modules import `flwr`.
"""
