"""What the name of a file or folder says: that it holds keys, is no text, or is of no use.

A file that is left out by its name is never opened. The lists cannot be complete. They need not
be: content is looked at as well (see `content.py`), so a suffix that is missing here costs time,
and most keys with other names are known by what they look like."""

from __future__ import annotations

# Nothing below these folders is indexed, not even on demand.
KEY_FOLDERS = frozenset(
    ".ssh .gnupg .password-store .aws .azure .gcloud gcloud .kube .docker keyrings .pki .vault"
    " .electrum .bitcoin .ethereum .monero .certbot .1password".split()
)
KEY_NAMES = frozenset(
    ".netrc _netrc .pgpass .my.cnf .mylogin.cnf .npmrc .pypirc .git-credentials .htpasswd"
    " .dockercfg .vault-token .authinfo .boto .s3cfg .env .envrc .bash_history .zsh_history"
    " .python_history .psql_history .mysql_history .sqlite_history shadow gshadow kubeconfig"
    " wallet.dat logins.json signons.sqlite key3.db key4.db terraform.tfstate".split()
)
KEY_SUFFIXES = frozenset(
    ".pem .key .p8 .p12 .pfx .pkcs12 .jks .jceks .bks .keystore .kdb .kdbx .psafe3 .ppk .gpg .pgp"
    " .age .agekey .ovpn .env .keychain .keychain-db .opvault .1pif .1pux .agilekeychain .wallet"
    " .mobileprovision .tfvars .kubeconfig .htpasswd .pgpass .credentials".split()
)
KEY_BEGINNINGS = (
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "ssh_host_", "secring.", ".env."),
    "terraform.tfstate.",
)
# secrets if they are data: a page or a program about passwords is a page or a program
SECRET_BEGINNINGS = (
    *("credential", "secret", "password", "passwd", "client_secret", "service_account"),
    *("service-account", "apikey", "api_key", "api-key", "auth_token", "access_token"),
)
DATA_SUFFIXES = frozenset(
    ("", *".json .yml .yaml .toml .ini .cfg .conf .csv .txt .xml .properties .enc .db".split())
)

BINARY_SUFFIXES = frozenset(
    # images
    ".png .jpg .jpeg .jpe .jfif .gif .bmp .tif .tiff .webp .ico .icns .heic .heif .avif .svg .svgz"
    " .psd .xcf .cr2 .nef .arw .dng .eps .pbm .pgm .ppm .xpm .tga .exr .hdr .djvu .jp2"
    # audio and video
    " .mp3 .ogg .oga .opus .flac .wav .aif .aiff .m4a .aac .wma .mid .midi .amr .mp4 .m4v .mkv"
    " .webm .avi .mov .wmv .flv .mpg .mpeg .3gp .ogv .vob .m2ts"
    # archives, packages, images of disks
    " .zip .gz .tgz .bz2 .tbz .xz .txz .zst .lz .lz4 .lzma .7z .rar .tar .cab .arj .cpio .ar .deb"
    " .rpm .apk .dmg .iso .img .vdi .vmdk .qcow2 .vhd .vhdx .ova .snap .flatpak .appimage .msi"
    " .xpi .crx .jar .war .ear .whl .egg .gem .nupkg .pak .br .squashfs"
    # programs
    " .exe .dll .so .dylib .a .o .obj .ko .elf .bin .class .pyc .pyo .pyd .wasm .dex .nbi .nbc"
    " .beam .rlib .rmeta .pdb .sys .efi .mo .gmo .qm"
    # databases, data
    " .db .sqlite .sqlite3 .db3 .mdb .accdb .dbf .frm .ibd .ldb .sst .rdb .realm .parquet .arrow"
    " .feather .orc .avro .h5 .hdf5 .nc .npy .npz .mat .rds .rdata .pkl .pickle .joblib .onnx .pt"
    " .pth .ckpt .safetensors .gguf .tflite .pack .sav .dta .shp .pcap .pcapng"
    # fonts, models, others
    " .ttf .otf .ttc .woff .woff2 .pfb .pfa .afm .fon .stl .blend .fbx .glb .3ds .dwg .dxf .swf"
    " .torrent .lnk .part .crdownload .msg .pst .ost .suo .xlsb .one .dvi .ps".split()
)
# documents for which there is no reader
UNREADABLE_SUFFIXES = frozenset(
    ".doc .docx .docm .dot .dotx .odt .ott .fodt .rtf .xls .xlsx .xlsm .ods .ppt .pptx .pps .ppsx"
    " .odp .odg .pages .numbers .epub .mobi .azw .azw3 .fb2 .chm .hlp .xps .pub .wpd .wps .vsd"
    " .vsdx .sxw".split()
)
BACKUP_SUFFIXES = frozenset(".swp .swo .swn .bak .orig .rej .tmp .temp .old".split())
BACKUP_BEGINNINGS = ("~$", ".~lock.", ".#")  # of office programs and editors
GENERATED_NAMES = frozenset(
    "package-lock.json npm-shrinkwrap.json pnpm-lock.yaml go.sum .ds_store thumbs.db desktop.ini"
    " cscope.out compile_commands.json cachedir.tag".split()
)
GENERATED_SUFFIXES = frozenset((".lock", ".map"))
GENERATED_ENDS = (".min.js", ".min.css", ".bundle.js", ".min.mjs")
FOLDERS = {
    **dict.fromkeys(
        "node_modules bower_components __pycache__ __pypackages__ site-packages .git .hg .svn .bzr"
        " CVS .tox .nox .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .cache .gradle"
        " .idea .vscode .eggs .terraform DerivedData .next .nuxt .parcel-cache".split(),
        "generated",
    ),
    **dict.fromkeys(
        ("Trash", ".Trash", "$RECYCLE.BIN", "System Volume Information", "lost+found"), "trash"
    ),
}
# a folder with one of these files was made by a program: a Python environment, a cache
FOLDER_MARKS = frozenset(("pyvenv.cfg", "CACHEDIR.TAG"))


def is_utf8(name: str) -> bool:
    """Whether a name can be stored; Linux allows any bytes, which Python gives as surrogates."""
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_key(name: str, is_folder: bool) -> bool:
    """Whether a name says that a file, or a folder, holds keys or passwords."""
    if is_folder:
        return name in KEY_FOLDERS
    low = name.lower()
    suffix = _suffix(low)
    return (
        suffix in KEY_SUFFIXES
        or low in KEY_NAMES
        or low.startswith(KEY_BEGINNINGS)
        or (low.startswith(SECRET_BEGINNINGS) and suffix in DATA_SUFFIXES)
    )


def of_no_use(name: str, is_folder: bool) -> str | None:
    """Why a file, or a folder, is left out by its name, if it is."""
    if is_folder:
        trash = "trash" if name.startswith(".Trash-") else None
        return FOLDERS.get(name, trash)
    low = name.lower()
    suffix = _suffix(low)
    if suffix in BINARY_SUFFIXES:
        return "binary"
    if suffix in UNREADABLE_SUFFIXES:
        return "no reader"
    if suffix in BACKUP_SUFFIXES or low.endswith("~") or low.startswith(BACKUP_BEGINNINGS):
        return "backup"
    made = suffix in GENERATED_SUFFIXES or low in GENERATED_NAMES or low.endswith(GENERATED_ENDS)
    return "generated" if made else None


def _suffix(name: str) -> str:
    """With its dot; a name that begins with its only dot has none."""
    dot = name.rfind(".")
    return name[dot:] if dot > 0 else ""
