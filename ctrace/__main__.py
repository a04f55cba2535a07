"""Run the command line as `python -m ctrace`."""

from ctrace.cli.main import app

if __name__ == "__main__":
    app(prog_name="ctrace")
