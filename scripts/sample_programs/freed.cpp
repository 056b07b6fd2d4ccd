// Reads memory after it was freed, on purpose: the vector moves when it grows, the reference does not.
#include <cstdio>
#include <string>
#include <vector>

struct Message {
    int attempts;
    std::string body;
};

static int deliver(std::vector<Message>& waiting) {
    const Message& first = waiting.front();
    for (int i = 0; i < 100; ++i) waiting.push_back({i, "again"});
    return first.attempts;
}

int main() {
    std::vector<Message> waiting{{3, "refund"}};
    std::printf("attempts: %d\n", deliver(waiting));
    return 0;
}
