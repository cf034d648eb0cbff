"""What a compile is watched with: the session, and the hooks that file what they see under its graphs."""
