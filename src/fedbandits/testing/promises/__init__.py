"""The promises of an algorithm, one function each: given a `Subject`, it raises a `Breach` that tells what it found."""
