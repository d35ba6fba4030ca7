"""Release artifacts besides images and the chart: the archives of the kubectl plugin. Not shipped itself."""
