"""What a judge can see and keeps to: drawn pictures with known answers, and the card that comes of them."""
