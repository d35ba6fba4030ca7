"""What is handed out besides images and the chart: the archives of the kubectl plugin. Not shipped itself."""
