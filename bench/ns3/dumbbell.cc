// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The comparison scenario of `make bench` in ns-3: N senders, two routers, N
// receivers; CUBIC with ECN through FQ-CoDel at the bottleneck. What
// bench/dumbbell.toml says to Narrows, this says to ns-3:
//
//   sender i --1 Gbit/s-- router --RATE, 10 ms, FQ-CoDel-- router --1 Gbit/s-- receiver i
//
// Built by bench/ns3/build against Debian's libns3-dev (3.37 or later).
// Prints one line of key=value pairs; CPU time is taken by whoever runs it.

#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace
{

std::vector<uint64_t>
Received(const ApplicationContainer& sinks)
{
    std::vector<uint64_t> bytes;
    for (uint32_t i = 0; i < sinks.GetN(); ++i)
    {
        bytes.push_back(DynamicCast<PacketSink>(sinks.Get(i))->GetTotalRx());
    }
    return bytes;
}

void
TakeReceived(std::vector<uint64_t>* into, ApplicationContainer sinks)
{
    *into = Received(sinks);
}

void
CountHop(uint64_t* hops, Ptr<const Packet>)
{
    ++*hops;
}

} // namespace

int
main(int argc, char* argv[])
{
    uint32_t flows = 2;
    double seconds = 60;
    std::string rate = "50Mbps";
    bool countHops = false;
    CommandLine cmd;
    cmd.AddValue("flows", "number of flows", flows);
    cmd.AddValue("seconds", "virtual seconds", seconds);
    cmd.AddValue("rate", "rate of the bottleneck", rate);
    cmd.AddValue("hops", "count packet-hops (costs time)", countHops);
    cmd.Parse(argc, argv);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::TcpCubic"));
    // Releases before 3.38 have CUBIC without its Reno-friendly region.
    const bool friendly =
        Config::SetDefaultFailSafe("ns3::TcpCubic::TcpFriendliness", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue("On"));
    // Ethernet's MTU less IPv4, TCP and timestamps.
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    // Never the limit; ns-3's default of 128 KiB would be.
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(16 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(16 << 20));

    NodeContainer routers(2);
    NodeContainer senders(flows);
    NodeContainer receivers(flows);
    InternetStackHelper stack;
    stack.Install(routers);
    stack.Install(senders);
    stack.Install(receivers);

    PointToPointHelper bottleneck;
    bottleneck.SetDeviceAttribute("DataRate", StringValue(rate));
    bottleneck.SetDeviceAttribute("Mtu", UintegerValue(1500));
    bottleneck.SetChannelAttribute("Delay", StringValue("10ms"));
    // One packet in the device, so that the others wait where the AQM sees them.
    bottleneck.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1p"));
    NetDeviceContainer middle = bottleneck.Install(routers);

    PointToPointHelper access;
    access.SetDeviceAttribute("DataRate", StringValue("1Gbps"));
    access.SetDeviceAttribute("Mtu", UintegerValue(1500));
    access.SetChannelAttribute("Delay", StringValue("0ms"));
    access.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1000p"));

    TrafficControlHelper fqCodel;
    fqCodel.SetRootQueueDisc("ns3::FqCoDelQueueDisc");
    QueueDiscContainer queues = fqCodel.Install(middle);

    Ipv4AddressHelper addresses;
    addresses.SetBase("10.0.0.0", "255.255.255.252");
    addresses.Assign(middle);
    TrafficControlHelper any;
    ApplicationContainer sinks;
    for (uint32_t i = 0; i < flows; ++i)
    {
        NetDeviceContainer left = access.Install(senders.Get(i), routers.Get(0));
        NetDeviceContainer right = access.Install(routers.Get(1), receivers.Get(i));
        addresses.NewNetwork();
        addresses.Assign(left);
        addresses.NewNetwork();
        Ipv4InterfaceContainer ends = addresses.Assign(right);
        // Address assignment put a queue disc on the access links; the
        // comparison has plain FIFOs there.
        any.Uninstall(left);
        any.Uninstall(right);

        const uint16_t port = 5201;
        PacketSinkHelper sink("ns3::TcpSocketFactory",
                              InetSocketAddress(Ipv4Address::GetAny(), port));
        sinks.Add(sink.Install(receivers.Get(i)));
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(ends.GetAddress(1), port));
        ApplicationContainer source = bulk.Install(senders.Get(i));
        source.Start(Seconds(0));
        source.Stop(Seconds(seconds));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    uint64_t hops = 0;
    if (countHops)
    {
        Config::ConnectWithoutContext(
            "/NodeList/*/DeviceList/*/$ns3::PointToPointNetDevice/PhyTxEnd",
            MakeBoundCallback(&CountHop, &hops));
    }
    // The steady window that Narrows takes by default: the last two thirds.
    const double from = seconds / 3;
    std::vector<uint64_t> before;
    Simulator::Schedule(Seconds(from), &TakeReceived, &before, sinks);
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();

    std::vector<uint64_t> after = Received(sinks);
    const QueueDisc::Stats& stats = queues.Get(0)->GetStats();
    std::cout << "engine=ns-3 friendly=" << (friendly ? "on" : "off")
              << " events=" << Simulator::GetEventCount()
              << " marks=" << stats.nTotalMarkedPackets
              << " drops=" << stats.nTotalDroppedPackets;
    if (countHops)
    {
        std::cout << " hops=" << hops;
    }
    std::cout << " goodput_mbit=";
    for (uint32_t i = 0; i < flows; ++i)
    {
        const double bits = 8.0 * static_cast<double>(after[i] - before[i]);
        std::cout << (i ? "," : "") << bits / 1e6 / (seconds - from);
    }
    std::cout << std::endl;
    Simulator::Destroy();
    return 0;
}
