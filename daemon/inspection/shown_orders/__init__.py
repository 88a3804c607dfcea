"""What operators read of orders, previews and decisions."""
