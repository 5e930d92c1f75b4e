"""The suite every algorithm passes, found by walking `ALGORITHMS`; its harness serves the other tests too."""
