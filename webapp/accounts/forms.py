"""Forms of the sign-in, account and people pages. Rules live in the services."""

from django import forms

from webapp.accounts.choices import Role

EXPIRIES = [("30", "30 days"), ("90", "90 days"), ("365", "1 year"), ("", "never")]


class LoginForm(forms.Form):
    username = forms.CharField(
        max_length=150,
        label="User name",
        widget=forms.TextInput(attrs={"autocomplete": "username", "autofocus": True}),
    )
    password = forms.CharField(
        max_length=1000,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )


class TokenForm(forms.Form):
    name = forms.CharField(max_length=100, help_text="What will use it, such as “nightly upload”.")
    expires_in_days = forms.ChoiceField(
        choices=EXPIRIES, required=False, initial="90", label="Valid for"
    )


class PasswordForm(forms.Form):
    current = forms.CharField(
        max_length=1000,
        strip=False,
        label="Current password",
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )
    new = forms.CharField(
        max_length=1000,
        strip=False,
        label="New password",
        help_text="At least 8 characters, and not one of the common ones.",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )


class PersonForm(forms.Form):
    username = forms.CharField(
        max_length=150,
        label="User name",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    role = forms.ChoiceField(
        choices=[
            (Role.VIEWER.value, "viewer: sees everything, changes nothing"),
            (Role.OPERATOR.value, "operator: uploads, deploys, moves traffic"),
            (Role.ADMIN.value, "admin: also runtimes and people"),
        ],
        initial=Role.VIEWER.value,
    )
