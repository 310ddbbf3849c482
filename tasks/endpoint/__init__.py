"""The judge behind its endpoint: requests, replies, API keys. The only package that imports the OpenAI client."""
