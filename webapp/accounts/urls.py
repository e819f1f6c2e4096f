"""Pages of accounts."""

from django.urls import path

from webapp.accounts import views

app_name = "accounts"
urlpatterns = [
    path("login/", views.login_page, name="login"),
    path("logout/", views.logout_page, name="logout"),
    path("account/", views.account, name="account"),
    path("account/tokens/", views.account_token, name="token-issue"),
    path("account/tokens/<int:token_id>:revoke", views.account_token_revoke, name="token-revoke"),
    path("account/password/", views.account_password, name="password"),
    path("people/", views.people, name="people"),
    path("people/new/", views.people_create, name="person-create"),
    path("people/<str:username>:change", views.people_change, name="person-change"),
    path("people/<str:username>:reset-password", views.people_reset, name="person-reset"),
]
