"""API routes of jobs, under /api/v1/."""

from django.urls import path

from webapp.jobs import api

app_name = "jobs_api"
urlpatterns = [
    path("operations", api.OperationCollection.as_view(), name="operations"),
    path("operations/<str:job_id>:cancel", api.OperationCancel.as_view(), name="cancel"),
    path("operations/<str:job_id>:wait", api.OperationWait.as_view(), name="wait"),
    path("operations/<str:job_id>", api.OperationItem.as_view(), name="operation"),
]
