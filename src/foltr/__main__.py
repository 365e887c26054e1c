from foltr.cli.app import main

main()
