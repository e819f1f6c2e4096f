"""Pages of jobs."""

from django.urls import path

from webapp.jobs import views

app_name = "jobs"
urlpatterns = [
    path("jobs/", views.jobs_page, name="list"),
    path("jobs/<str:job_id>/", views.job_page, name="detail"),
    path("jobs/<str:job_id>:cancel", views.job_cancel_page, name="cancel"),
]
