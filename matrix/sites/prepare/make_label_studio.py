"""A project with tasks, and its owner, who is logged in."""

import os
import subprocess
import sys
import time
from pathlib import Path

import label_studio

package = str(Path(label_studio.__file__).parent)
Path(os.environ["LABEL_STUDIO_BASE_DATA_DIR"]).mkdir(exist_ok=True)
subprocess.run([sys.executable, f"{package}/manage.py", "migrate", "--verbosity", "0"], check=True)
sys.path.insert(0, package)

import django  # noqa: E402

django.setup()

from django_session import log_in  # noqa: E402
from organizations.models import Organization  # noqa: E402
from projects.models import Project  # noqa: E402
from tasks.models import Task  # noqa: E402
from users.models import User  # noqa: E402

user = User.objects.filter(email="o@example.com").first()
if user is None:
    user = User.objects.create_user("o@example.com", "secret-of-a-benchmark")
    organization = Organization.create_organization(created_by=user, title="O")
    user.active_organization = organization
    user.save()
    project = Project.objects.create(
        title="Words", organization=organization, created_by=user,
        label_config='<View><Text name="t" value="$text"/><Choices name="c" toName="t">'
        '<Choice value="a"/><Choice value="b"/></Choices></View>',
    )  # fmt: skip
    for number in range(200):
        Task.objects.create(project=project, data={"text": f"sentence {number}"})
project = Project.objects.first()
tasks = list(Task.objects.values_list("pk", flat=True)[:30])
Path("headers.txt").write_text(f"Cookie: {log_in(user, last_login=time.time())}\n")
urls = ["/projects/", f"/projects/{project.pk}/data", "/user/account/", "/api/projects/"]
urls += [
    f"/api/projects/{project.pk}/",
    f"/api/tasks/?project={project.pk}&page_size=50",
    "/api/users/",
]
urls += [f"/api/tasks/{task}/" for task in tasks] + [
    "/api/organizations/",
    "/api/version",
    "/docs/api/schema/json",
]
Path("urls.txt").write_text("\n".join(urls) + "\n")
