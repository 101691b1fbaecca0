"""The live page: models, their states and load, in a browser. Plain files; nothing comes from elsewhere."""
