"""The settings of `webcrawl` in a folder without a project: those of a new project, without folders of its own."""

BOT_NAME = "webcrawl"
ADDONS = {"webcrawl.addon.WebcrawlAddon": 100}
