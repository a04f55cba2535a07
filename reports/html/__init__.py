"""A run as one HTML file for a browser: no network, no other files.

`documents.py` collects what `--json` prints, each as one document; `html_page.py` writes the file. The scripts and the
style are plain JavaScript and CSS, in this folder, and go into the page as they are; the first line of each says what
it is for. The page shows only what the documents contain.
"""
