"""The judge behind its endpoint: requests, replies, API keys. The only package that knows the OpenAI client."""
