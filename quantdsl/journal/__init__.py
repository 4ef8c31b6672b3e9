"""The journal of a session: every event that the engine consumed and every record it wrote."""
