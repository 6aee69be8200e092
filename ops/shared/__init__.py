"""What operators of several families need."""
