"""Words that say what a number beside them is: a telephone's, or something else's. Data only.

In the languages of Europe with the most speakers, and the most spoken ones of Asia.
"""

import re

# Parts of words in which a telephone is named, and whole words that stand before its number.
_PARTS = (
    "telefon", "telephon", "téléphon", "teléfon", "puhelin", "telefoon", "telemóvel", "τηλέφων",
    "телефон", "мобильн", "电话", "電話", "手机", "手機", "携帯", "전화", "휴대폰", "핸드폰",
    "هاتف", "جوال", "موبايل", "تلفن", "موبایل", "טלפון", "נייד", "फ़ोन", "फोन", "मोबाइल", "โทร",
    "điện thoại",
)  # fmt: skip
_WORDS = (
    "phones?", "phoned", "telephones?", "tel", "tél", "telf", "tlf", "tf", "puh", "ph", "gsm",
    "mobiles?", "mob", "mobil", "mobiel", r"mobil\w*nummer", r"handy\w*", "cell", "cellphone",
    "cellulare", "celular", "móvil", "portable", "komórka", "kom", "fax", "faks", "landline",
    "hotline", "helpline", "voicemail", "whatsapp", "sms", "viber", "signal", "telegram", "call",
    "calls", "called", "calling", "ring", "rings?", "dial", "text", "texted", "reach", "contact",
    "rufnummer", "durchwahl", "ruf", "anrufen", "appele[rz]", "appelez-moi", "llama[rd]?",
    r"ll[aá]m\w+", "ligar", "ligue", "liga", "chiama(?:mi|re|te)?", "bel", "bellen", "soita",
    "ringa?", "zadzwoń", "zavolejte", "hívjon", "τηλ", "κιν", "κινητό", "тел", "моб", "звоните",
    "позвоните", "звони", "sđt", "đt",
)  # fmt: skip
_IDENTIFIERS = (
    "orders?", "invoices?", "ids?", "ref", "reference", "ticket", "case", "account", "acct",
    "a/c", "isbn", "issn", "ean", "upc", "gtin", "asin", "sku", "serial", "s/n", "imei", "iccid",
    "imsi", "meid", "article", "item", "part", "model", "lot", "batch", "version", "ver", "v",
    "release", "build", "prices?", "costs?", "room", "dates?", "dob", "born", "years?", "pages?",
    "chapter", "section", "zip", "zipcode", "postcode", "postal", "pin", "flight", "bus", "route",
    "bug", "issue", "commit", "policy", "contract", "customer", "client", "member", "membership",
    "tracking", "parcel", "vat", "tax", "ssn", "passport", "licen[cs]e", "iban", "bic", "card",
    "gps", "coordinates", "population", "plz", r"bestell\w*", r"rechnung\w*", r"kunden\w*",
    r"auftrag\w*", r"artikel\w*", r"akten\w*", r"konto\w*", r"steuer\w*", r"vertrag\w*",
    "seriennummer", "commande", "facture", "référence", "siret", "siren", "pedido", "factura",
    "referencia", "nif", "dni", "cpf", "cnpj", "ordine", "fattura", "codice", "zamówienie",
    "faktura", "nip", "pesel", "tilaus", "beställning", r"заказ\w*", r"сч[её]т\w*", "инн",
    "παραγγελία",
)  # fmt: skip
_PARTS_OF_IDENTIFIERS = ("订单", "訂單", "发票", "注文", "주문", "송장", "طلبية", "הזמנה")
# What may stand between such a word and its number.
_OF_NUMBERS = r"(?:\W{0,3}(?:no|nr|num|number|nummer|nº|n°|№|id|code|is|was)(?!\w)){0,2}\W{0,3}"


def _either(words: tuple[str, ...], parts: tuple[str, ...]) -> str:
    return rf"(?<!\w)(?:{'|'.join(words)})(?!\w)|\w*(?:{'|'.join(parts)})\w*"


# A word that names a telephone, or a letter that does in signatures.
PHONE = re.compile(rf"{_either(_WORDS, _PARTS)}|(?-i:(?<!\w)[TMPFH][.:]\s{{0,2}}$)", re.IGNORECASE)
# Ends where the number begins that it says is another's.
OTHER = re.compile(
    rf"(?:{_either(_IDENTIFIERS, _PARTS_OF_IDENTIFIERS)}){_OF_NUMBERS}$", re.IGNORECASE
)
# What may stand behind a number, to say whose it is.
BEHIND = re.compile(
    r"\s{0,2}(?:[(\[,–-]\s?(?:home|work|office|mobile|mob|cell|tel|phone|fax|direct|privat|private|"
    r"handy|mobil|portable|móvil|celular|моб|дом|раб)(?!\w)"
    r"|(?:is|was|ist|est|es)\s(?:\w+\s){0,2}(?:phone|cell|mobile|hotline|number|fax|handy|"
    r"telefon|teléfono|móvil|portable)(?!\w))",
    re.IGNORECASE,
)
