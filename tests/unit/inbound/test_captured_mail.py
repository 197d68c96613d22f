"""What a mail program finds in a captured mail."""

from __future__ import annotations

from email.message import EmailMessage

from app.inbound.simulated import captured_links

PIXEL, FIRST, SECOND, OPT_OUT = "p" * 20, "f" * 30, "s" * 30, "u" * 20
HTML = (
    f'<a href="https://t.example/c/{FIRST}">one</a> <a href="https://t.example/c/{SECOND}">two</a>'
    f'<img src="https://t.example/o/{PIXEL}.gif">'
)


def mail(html: str | None = HTML, text: str = "", *, one_click: bool = True) -> bytes:
    message = EmailMessage()
    message["List-Unsubscribe"] = f"<https://t.example/u/{OPT_OUT}>, <mailto:unsubscribe+a@t.example>"
    if one_click:
        message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    message.set_content(text or "Hello")
    if html is not None:
        message.add_alternative(html, subtype="html", cte="quoted-printable")
    message.add_attachment(f'<img src="/o/{"x" * 20}.gif"><a href="/c/{"y" * 30}">', subtype="html", filename="a.html")
    return message.as_bytes()


def test_pixel_links_and_opt_out_are_found_in_their_order() -> None:
    links = captured_links(mail())
    assert (links.pixels, links.links, links.opt_outs) == ((PIXEL,), (FIRST, SECOND), (OPT_OUT,))


def test_a_mail_without_html_has_the_links_of_its_text() -> None:
    links = captured_links(mail(None, f"Read https://t.example/c/{FIRST}."))
    assert (links.pixels, links.links) == ((), (FIRST,))


def test_a_mail_without_a_button_has_no_opt_out() -> None:
    assert captured_links(mail(one_click=False)).opt_outs == ()
