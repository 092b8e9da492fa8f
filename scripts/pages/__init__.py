"""The report, a static site: what was judged, as pages, plots and the code side by side."""
