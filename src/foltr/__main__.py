from foltr.cli import main

main()
