"""API routes of accounts, under /api/v1/."""

from django.urls import path

from webapp.accounts import api

app_name = "accounts_api"
urlpatterns = [
    path("me", api.Me.as_view(), name="me"),
    path("tokens", api.TokenCollection.as_view(), name="tokens"),
    path("tokens/<int:token_id>", api.TokenItem.as_view(), name="token"),
    path("tokens/<int:token_id>:revoke", api.TokenRevoke.as_view(), name="token-revoke"),
    path("people", api.PeopleCollection.as_view(), name="people"),
    path("people/<str:username>:reset_password", api.PersonPasswordReset.as_view(), name="reset"),
    path("people/<str:username>", api.PersonItem.as_view(), name="person"),
]
