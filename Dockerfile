# One image for every process; docker-compose.yml says which one a container runs.
FROM python:3.11-slim AS base
ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/* && useradd --create-home switchyard \
    && mkdir /data && chown switchyard /data
WORKDIR /app

FROM base AS control-plane
COPY requirements/ requirements/
RUN pip install -r requirements/web.txt -r requirements/worker.txt
COPY . .
USER switchyard

FROM base AS runtime
COPY requirements/ requirements/
RUN pip install -r requirements/runtime.txt
COPY inference_runtime/ inference_runtime/
USER switchyard

# The same runtime with CUDA's ONNX Runtime; the host brings driver and CUDA libraries.
FROM base AS runtime-gpu
COPY requirements/ requirements/
RUN pip install -r requirements/gpu.txt
COPY inference_runtime/ inference_runtime/
USER switchyard
