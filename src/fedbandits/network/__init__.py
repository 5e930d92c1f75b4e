"""Graphs on which agents talk to each other, and the relays that carry their messages."""
