// Aggregates of 802.11n and 802.11ac at a fixed rate, over ad hoc stations that all hear each other at the same power (own code).
// --tcp=0: N stations always have UDP packets for one; --tcp=1: one station sends one TCP flow to another.
#include "common.h"
#include "ns3/applications-module.h"
#include "ns3/ipv4-list-routing-helper.h"
#include "ns3/ipv4-static-routing-helper.h"
#include "ns3/mobility-module.h"
#include "ns3/traffic-control-module.h"
#include <cstdio>
using namespace ns3;

static bool g_on = false;
static uint64_t g_rx = 0, g_psdus = 0, g_mpdus = 0, g_bars = 0;

static void Psdu(WifiConstPsduMap m, WifiTxVector, double)
{
    if (!g_on)
        return;
    auto p = m.begin()->second;
    if (p->GetHeader(0).IsBlockAckReq())
        ++g_bars;
    if (p->GetHeader(0).IsData() && p->GetSize() > 400)
    {
        ++g_psdus;
        g_mpdus += p->GetNMpdus();
    }
}
// Keeps a queue at `depth` packets: one new for each that leaves.
struct Src
{
    Ptr<Socket> s;
    uint32_t size;
    void Send() { s->Send(Create<Packet>(size)); }
    void Deq(Ptr<const WifiMpdu>) { Simulator::ScheduleNow(&Src::Send, this); }
};
static void RxUdp(Ptr<Socket> s)
{
    while (Ptr<Packet> p = s->Recv())
        if (g_on)
            g_rx += p->GetSize();
}
static void RxTcp(Ptr<const Packet> p, const Address&)
{
    if (g_on)
        g_rx += p->GetSize();
}

int main(int argc, char** argv)
{
    uint32_t n = 1, size = 1472, run = 1, mcs = 7, width = 20, streams = 1, sgi = 0, tcp = 0, win = 400, depth = 200, bar = 0;
    double T = 4, warm = 1;
    std::string std_ = "n";
    CommandLine cmd;
    cmd.AddValue("std", "n|ac", std_); cmd.AddValue("mcs", "", mcs); cmd.AddValue("width", "MHz", width);
    cmd.AddValue("streams", "", streams); cmd.AddValue("sgi", "short guard interval", sgi); cmd.AddValue("n", "senders", n);
    cmd.AddValue("tcp", "", tcp); cmd.AddValue("win", "segments of TCP's window", win); cmd.AddValue("size", "UDP payload", size);
    cmd.AddValue("depth", "packets that wait", depth); cmd.AddValue("bar", "block ack request after a missing block ack", bar);
    cmd.AddValue("T", "", T); cmd.AddValue("warm", "", warm); cmd.AddValue("run", "", run);
    cmd.Parse(argc, argv);
    RngSeedManager::SetSeed(1);
    RngSeedManager::SetRun(run);
    bool ac = std_ == "ac";
    SetMac(false, 7, 7, 7);
    Config::SetDefault("ns3::WifiRemoteStationManager::RtsCtsThreshold", UintegerValue(4692480));
    SetMacQueue(tcp ? 1000 : 2 * depth);
    SetTcp({"TcpNewReno", 1448, win, 8 << 20, 1, 10, 1.0, false});
    // A window beyond 64 KiB has to be scaled.
    Config::SetDefault("ns3::TcpSocketBase::WindowScaling", BooleanValue(true));
    NodeContainer nodes;
    nodes.Create(n + 1);
    YansWifiChannelHelper ch;
    ch.SetPropagationDelay("ns3::ConstantSpeedPropagationDelayModel");
    ch.AddPropagationLoss("ns3::FixedRssLossModel", "Rss", DoubleValue(-30));
    YansWifiPhyHelper phy;
    phy.SetChannel(ch.Create());
    phy.Set("ChannelSettings", StringValue("{0, " + std::to_string(width) + ", BAND_5GHZ, 0}"));
    phy.Set("Antennas", UintegerValue(streams));
    phy.Set("MaxSupportedTxSpatialStreams", UintegerValue(streams));
    phy.Set("MaxSupportedRxSpatialStreams", UintegerValue(streams));
    WifiHelper wifi;
    wifi.SetStandard(ac ? WIFI_STANDARD_80211ac : WIFI_STANDARD_80211n);
    // HtMcs8 and on are those of two streams.
    std::string mode = (ac ? "VhtMcs" : "HtMcs") + std::to_string(ac ? mcs : mcs + 8 * (streams - 1));
    wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager", "DataMode", StringValue(mode), "ControlMode", StringValue("OfdmRate24Mbps"));
    WifiMacHelper mac;
    mac.SetType("ns3::AdhocWifiMac", "QosSupported", BooleanValue(true), "BE_MaxAmpduSize", UintegerValue(ac ? 1048575 : 65535),
                "BE_MaxAmsduSize", UintegerValue(0));
    auto wd = wifi.Install(phy, mac, nodes);
    MobilityHelper mob;
    auto pos = CreateObject<ListPositionAllocator>();
    pos->Add(Vector(0, 0, 0));
    for (uint32_t i = 0; i < n; ++i)
        pos->Add(Vector(std::cos(2 * M_PI * i / n), std::sin(2 * M_PI * i / n), 0));
    mob.SetPositionAllocator(pos);
    mob.Install(nodes);
    InternetStackHelper inet;
    inet.Install(nodes);
    Ipv4AddressHelper addr;
    addr.SetBase("10.1.0.0", "255.255.255.0");
    auto ifs = addr.Assign(wd);
    TrafficControlHelper tc;
    tc.Uninstall(wd);
    NeighborCacheHelper nc;
    nc.PopulateNeighborCache();

    for (uint32_t i = 0; i <= n; ++i)
    {
        auto dev = DynamicCast<WifiNetDevice>(wd.Get(i));
        auto ht = dev->GetHtConfiguration();
        ht->SetAttribute("ShortGuardIntervalSupported", BooleanValue(sgi));
        dev->GetPhy()->TraceConnectWithoutContext("PhyTxPsduBegin", MakeCallback(&Psdu));
        auto be = dev->GetMac()->GetQosTxop(AC_BE);
        be->SetAttribute("UseExplicitBarAfterMissedBlockAck", BooleanValue(bar));
    }
    std::vector<Src> src(n);
    auto u = CreateObject<UniformRandomVariable>();
    if (tcp)
    {
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 9));
        sink.Install(nodes.Get(0)).Get(0)->TraceConnectWithoutContext("Rx", MakeCallback(&RxTcp));
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(ifs.GetAddress(0), 9));
        bulk.SetAttribute("SendSize", UintegerValue(1448));
        bulk.Install(nodes.Get(1)).Start(Seconds(0.1));
    }
    else
    {
        auto rxs = Socket::CreateSocket(nodes.Get(0), UdpSocketFactory::GetTypeId());
        rxs->SetAttribute("RcvBufSize", UintegerValue(1 << 26));
        rxs->Bind(InetSocketAddress(Ipv4Address::GetAny(), 9));
        rxs->SetRecvCallback(MakeCallback(&RxUdp));
    }
    for (uint32_t i = 1; i <= n && !tcp; ++i)
    {
        auto& s = src[i - 1];
        s.size = size;
        s.s = Socket::CreateSocket(nodes.Get(i), UdpSocketFactory::GetTypeId());
        s.s->Bind();
        s.s->Connect(InetSocketAddress(ifs.GetAddress(0), 9));
        auto dev = DynamicCast<WifiNetDevice>(wd.Get(i));
        dev->GetMac()->GetQosTxop(AC_BE)->GetWifiMacQueue()->TraceConnectWithoutContext("Dequeue", MakeCallback(&Src::Deq, &s));
        double t0 = 0.05 * u->GetValue();
        for (uint32_t k = 0; k < depth; ++k)
            Simulator::ScheduleWithContext(i, Seconds(t0), &Src::Send, &s);
    }
    Simulator::Schedule(Seconds(warm), [&]() { g_on = true; });
    Simulator::Stop(Seconds(warm + T));
    double c0 = CpuNow();
    Simulator::Run();
    double cpu = CpuNow() - c0;
    auto d0 = DynamicCast<WifiNetDevice>(wd.Get(1));
    auto be = d0->GetMac()->GetQosTxop(AC_BE);
    printf("{\"std\":\"%s\",\"mcs\":%u,\"width\":%u,\"streams\":%u,\"sgi\":%u,\"n\":%u,\"tcp\":%u,\"run\":%u,\"total_mbps\":%.5f,\"mpdus_per_psdu\":%.4f,"
           "\"psdus_per_s\":%.2f,\"bars\":%lu,\"aifsn\":%u,\"cwmin\":%u,\"txop_us\":%ld,\"cpu\":%.4f,\"simsec\":%g}\n",
           std_.c_str(), mcs, width, streams, sgi, n, tcp, run, g_rx * 8e-6 / T, g_psdus ? double(g_mpdus) / g_psdus : 0, g_psdus / T,
           (unsigned long)g_bars, unsigned(be->GetAifsn(0)), be->GetMinCw(0), (long)be->GetTxopLimit(0).GetMicroSeconds(), cpu, T + warm);
    Simulator::Destroy();
    return 0;
}
