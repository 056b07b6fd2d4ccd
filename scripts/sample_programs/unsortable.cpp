// Does not compile, on purpose: std::sort needs random access, and a key of a map needs an order.
#include <algorithm>
#include <list>
#include <map>
#include <string>

struct Order {
    std::string id;
    double total;
};

int main() {
    std::list<Order> orders{{"A-17", 19.5}, {"A-18", 3.0}};
    std::sort(orders.begin(), orders.end());
    std::map<Order, int> seen;
    seen[orders.front()] = 1;
    return seen.size();
}
