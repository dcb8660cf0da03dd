"""What the API shows of each model."""

from rest_framework import serializers
from taggit.serializers import TaggitSerializer, TagListSerializerField

from meadow.catalog.models import Category, Certification, Farm, Product, Region, Review
from meadow.journal.models import Article, Ingredient, Recipe, Step
from meadow.orders.models import Order, OrderLine


class RegionSerializer(serializers.ModelSerializer):
    class Meta:
        model = Region
        fields = ["id", "name", "slug", "summary"]


class CertificationSerializer(serializers.ModelSerializer):
    class Meta:
        model = Certification
        fields = ["name", "slug", "issuer"]


class CategorySerializer(serializers.ModelSerializer):
    parent = serializers.SlugRelatedField("slug", read_only=True)

    class Meta:
        model = Category
        fields = ["id", "name", "slug", "parent", "level", "description"]


class FarmSerializer(TaggitSerializer, serializers.ModelSerializer):
    region = RegionSerializer(read_only=True)
    certifications = CertificationSerializer(many=True, read_only=True)
    tags = TagListSerializerField(required=False)
    product_count = serializers.IntegerField(read_only=True)

    class Meta:
        model = Farm
        fields = [
            "id",
            "name",
            "slug",
            "farmer",
            "region",
            "certifications",
            "founded",
            "hectares",
            "latitude",
            "longitude",
            "tags",
            "product_count",
        ]


class ReviewSerializer(serializers.ModelSerializer):
    author = serializers.CharField(source="author.first_name", read_only=True)

    class Meta:
        model = Review
        fields = ["author", "rating", "title", "text", "written_at"]


class ProductSerializer(TaggitSerializer, serializers.ModelSerializer):
    farm = serializers.SlugRelatedField("slug", queryset=Farm.objects.all())
    category = serializers.SlugRelatedField("slug", queryset=Category.objects.all())
    unit_display = serializers.CharField(source="get_unit_display", read_only=True)
    tags = TagListSerializerField(required=False)
    rating = serializers.FloatField(read_only=True)

    class Meta:
        model = Product
        fields = [
            "id",
            "name",
            "slug",
            "farm",
            "category",
            "price",
            "unit",
            "unit_display",
            "stock",
            "season_start",
            "season_end",
            "tags",
            "rating",
        ]


class ProductDetailSerializer(ProductSerializer):
    farm = FarmSerializer(read_only=True)
    category = CategorySerializer(read_only=True)
    reviews = ReviewSerializer(many=True, read_only=True)
    allergens = serializers.SlugRelatedField("name", many=True, read_only=True)

    class Meta(ProductSerializer.Meta):
        fields = [*ProductSerializer.Meta.fields, "description", "allergens", "reviews"]


class ArticleSerializer(TaggitSerializer, serializers.ModelSerializer):
    contributor = serializers.CharField(source="contributor.name", read_only=True)
    tags = TagListSerializerField(required=False)

    class Meta:
        model = Article
        fields = ["id", "title", "slug", "contributor", "summary", "published_at", "tags"]


class IngredientSerializer(serializers.ModelSerializer):
    product = serializers.SlugRelatedField("slug", read_only=True)

    class Meta:
        model = Ingredient
        fields = ["amount", "name", "product"]


class StepSerializer(serializers.ModelSerializer):
    class Meta:
        model = Step
        fields = ["position", "text"]


class RecipeSerializer(serializers.ModelSerializer):
    ingredients = IngredientSerializer(many=True, read_only=True)
    steps = StepSerializer(many=True, read_only=True)

    class Meta:
        model = Recipe
        fields = [
            "id",
            "title",
            "slug",
            "servings",
            "minutes",
            "difficulty",
            "ingredients",
            "steps",
        ]


class OrderLineSerializer(serializers.ModelSerializer):
    product = serializers.SlugRelatedField("slug", read_only=True)

    class Meta:
        model = OrderLine
        fields = ["product", "quantity", "unit_price"]


class OrderSerializer(serializers.ModelSerializer):
    lines = OrderLineSerializer(many=True, read_only=True)
    collection_point = serializers.SlugRelatedField("slug", read_only=True)
    total = serializers.DecimalField(max_digits=9, decimal_places=2, read_only=True)

    class Meta:
        model = Order
        fields = ["number", "status", "placed_at", "collection_point", "total", "lines"]
