"""Chats: what each signs and sends, and how it is told of a deploy that waits."""
