# The same site out of an image of its interpreter (docs/image.md): containers start with the
# application loaded, and those of one node share its pages. A node with another kernel or processor
# than the builder's starts it by python.
FROM python:3.14-slim AS build
RUN python -m venv /app/venv
COPY requirements.txt /app/
RUN /app/venv/bin/pip install --no-cache-dir -r /app/requirements.txt 'pasture[auto,image]' gunicorn

FROM python:3.14-slim
COPY --from=build /app/venv /app/venv
COPY . /app/src
WORKDIR /app/src
RUN useradd --system app
# Variables that matter to every start are the same in the build and in the container.
ENV PATH=/app/venv/bin:$PATH HOME=/tmp LANG=C.UTF-8 PYTHONPATH=/app/src PYTHONUNBUFFERED=1 \
    PASTURE=seal
# pasture-python finds the image next to itself.
RUN pasture image build -o /app/venv/bin/pasture-python.img --mode 644 --warm / \
      --preload gunicorn.app.wsgiapp,gunicorn.arbiter,gunicorn.workers.sync,mysite.wsgi
USER app
EXPOSE 8000
# PASTURE_IMAGE=0 is the way back.
CMD ["pasture-python", "-m", "gunicorn", "-b", "0.0.0.0:8000", "-w", "4", "mysite.wsgi"]
