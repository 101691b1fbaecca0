"""Public fakes for tests of models, backends and of Charonia itself."""
