// People in one 802.11 DSSS cell behind a wired link (own code): readers of pages, or calls beside a bulk flow.
// host --5 Mb/s,2 ms-- AP(base station, ad hoc MAC) ))) N stations
// --web=1: each of ten readers asks for an object over a TCP connection of its own (request 32 bytes, Pareto II sizes of mean 10 kB
// and shape 1.2), reads for an exponential second, and asks again. --web=0: seven calls, an OnOffApplication each way (32 kbit/s,
// talk 1 s, silence 1.35 s), whose delays and lateness are kept, and one bulk flow to an eighth station.
#include "common.h"
#include "ge_channel.h"
#include "ns3/applications-module.h"
#include "ns3/mobility-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"
#include <cstdio>
#include <cstring>
#include <map>
using namespace ns3;

static Air g_air;
static uint64_t g_tx = 0;
static void TxBegin(uint32_t id, Ptr<const Packet>, double) { g_air.lastTx = id; ++g_tx; }

static const uint32_t REQUEST = 32;

// Answers each request with as many bytes as it asks for.
struct Server
{
    struct Answer { uint32_t asked = 0; uint64_t left = 0; };
    std::map<Ptr<Socket>, Answer> open;
    void Listen(Ptr<Node> node)
    {
        auto s = Socket::CreateSocket(node, TcpSocketFactory::GetTypeId());
        s->Bind(InetSocketAddress(Ipv4Address::GetAny(), 80));
        s->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(), MakeCallback(&Server::Accept, this));
        s->Listen();
        listener = s;
    }
    void Accept(Ptr<Socket> s, const Address&)
    {
        open[s];
        s->SetRecvCallback(MakeCallback(&Server::Recv, this));
        s->SetSendCallback(MakeCallback(&Server::Room, this));
    }
    void Recv(Ptr<Socket> s)
    {
        while (Ptr<Packet> p = s->Recv())
        {
            auto at = open.find(s);
            if (at == open.end() || !p->GetSize())
                return;
            if (!at->second.asked)
            {
                uint64_t size = 0;
                uint8_t bytes[8] = {0};
                p->CopyData(bytes, 8);
                memcpy(&size, bytes, 8);
                at->second.left = size;
            }
            at->second.asked += p->GetSize();
            Fill(s, at->second);
        }
    }
    void Room(Ptr<Socket> s, uint32_t)
    {
        auto at = open.find(s);
        if (at != open.end() && at->second.asked >= REQUEST)
            Fill(s, at->second);
    }
    void Fill(Ptr<Socket> s, Answer& answer)
    {
        while (answer.left > 0)
        {
            uint32_t n = std::min<uint64_t>({answer.left, s->GetTxAvailable(), 8192});
            int sent = n ? s->Send(Create<Packet>(n)) : 0;
            if (sent <= 0)
                return;
            answer.left -= sent;
        }
        open.erase(s);
        s->Close();
    }
    Ptr<Socket> listener;
};

struct Reader
{
    Ptr<Node> node;
    Ipv4Address server;
    Ptr<UniformRandomVariable> u;
    Ptr<ExponentialRandomVariable> e;
    uint64_t want = 0, got = 0, objects = 0;
    double began = 0;
    std::vector<double> times;
    Ptr<Socket> s;
    void Ask()
    {
        want = 1 + uint64_t(2000.0 * (std::pow(1 - u->GetValue(), -1 / 1.2) - 1));
        got = 0;
        began = Simulator::Now().GetSeconds();
        s = Socket::CreateSocket(node, TcpSocketFactory::GetTypeId());
        s->Bind();
        s->SetConnectCallback(MakeCallback(&Reader::Connected, this), MakeNullCallback<void, Ptr<Socket>>());
        s->SetRecvCallback(MakeCallback(&Reader::Recv, this));
        s->Connect(InetSocketAddress(server, 80));
    }
    void Connected(Ptr<Socket> s)
    {
        uint8_t bytes[REQUEST] = {0};
        memcpy(bytes, &want, 8);
        s->Send(Create<Packet>(bytes, REQUEST));
    }
    void Recv(Ptr<Socket> from)
    {
        while (Ptr<Packet> p = from->Recv())
        {
            if (!p->GetSize())
                return;
            got += p->GetSize();
        }
        if (from != s || got < want)
            return;
        ++objects;
        times.push_back(Simulator::Now().GetSeconds() - began);
        s = nullptr;
        from->Close();
        Simulator::Schedule(Seconds(e->GetValue(1, 0)), &Reader::Ask, this);
    }
};

// The far end of one direction of a call.
struct Ear
{
    uint64_t heard = 0, late = 0;
    std::vector<float> delays;
    void Recv(Ptr<Socket> s)
    {
        while (Ptr<Packet> p = s->Recv())
        {
            SeqTsSizeHeader h;
            p->PeekHeader(h);
            double delay = (Simulator::Now() - h.GetTs()).GetSeconds();
            ++heard;
            late += delay > 0.5;
            delays.push_back(delay);
        }
    }
};

int main(int argc, char** argv)
{
    uint32_t web = 1, seg = 1000, win = 5, run = 1, size = 200;
    double T = 100;
    CommandLine cmd;
    cmd.AddValue("web", "readers, else calls", web); cmd.AddValue("seg", "", seg); cmd.AddValue("win", "", win);
    cmd.AddValue("size", "bytes of a call's datagram", size); cmd.AddValue("T", "", T); cmd.AddValue("run", "", run);
    cmd.Parse(argc, argv);
    RngSeedManager::SetSeed(1);
    RngSeedManager::SetRun(run);
    const uint32_t calls = 7, n = web ? 10 : calls + 1;
    SetTcp({"TcpNewReno", seg, win, std::max(131072u, 4 * seg * win), 1, 1, 1.0, false});
    Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(Seconds(6)));
    SetMac(false, 7, 7, 7);
    SetMacQueue(50);

    NodeContainer host, ap, sta;
    ap.Create(1);
    sta.Create(n);
    host.Create(1);
    NodeContainer wl(ap, sta);
    YansWifiChannelHelper ch;
    ch.SetPropagationDelay("ns3::ConstantSpeedPropagationDelayModel");
    ch.AddPropagationLoss("ns3::FixedRssLossModel", "Rss", DoubleValue(-40));
    YansWifiPhyHelper phy;
    phy.SetChannel(ch.Create());
    WifiHelper wifi;
    wifi.SetStandard(WIFI_STANDARD_80211b);
    wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager", "DataMode", StringValue("DsssRate2Mbps"), "ControlMode", StringValue("DsssRate2Mbps"));
    WifiMacHelper mac;
    mac.SetType("ns3::AdhocWifiMac");
    auto wd = wifi.Install(phy, mac, wl);
    MobilityHelper mob;
    auto pos = CreateObject<ListPositionAllocator>();
    pos->Add(Vector(0, 0, 0));
    for (uint32_t i = 0; i < n; ++i)
        pos->Add(Vector(std::cos(2 * M_PI * i / n), std::sin(2 * M_PI * i / n), 0));
    mob.SetPositionAllocator(pos);
    mob.SetMobilityModel("ns3::ConstantPositionMobilityModel");
    mob.Install(wl);
    PointToPointHelper p2p;
    p2p.SetDeviceAttribute("DataRate", StringValue("5Mbps"));
    p2p.SetDeviceAttribute("Mtu", UintegerValue(3000));
    p2p.SetChannelAttribute("Delay", StringValue("2ms"));
    p2p.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("50p"));
    auto pd = p2p.Install(host.Get(0), ap.Get(0));
    InternetStackHelper inet;
    inet.Install(NodeContainer(wl, host));
    Ipv4AddressHelper addr;
    addr.SetBase("10.1.0.0", "255.255.255.0");
    auto wi = addr.Assign(wd);
    addr.SetBase("10.2.0.0", "255.255.255.0");
    auto pi = addr.Assign(pd);
    TrafficControlHelper tc;
    tc.Uninstall(wd);
    tc.Uninstall(pd);
    Ipv4StaticRoutingHelper sr;
    sr.GetStaticRouting(host.Get(0)->GetObject<Ipv4>())->SetDefaultRoute(pi.GetAddress(1), 1);
    for (uint32_t i = 0; i < n; ++i)
        sr.GetStaticRouting(sta.Get(i)->GetObject<Ipv4>())->SetDefaultRoute(wi.GetAddress(0), 1);
    NeighborCacheHelper nc;
    nc.PopulateNeighborCache();

    auto u = CreateObject<UniformRandomVariable>();
    auto e = CreateObject<ExponentialRandomVariable>();
    std::vector<std::shared_ptr<GeChain>> chains;
    for (uint32_t i = 0; i < n; ++i)
    {
        auto c = std::make_shared<GeChain>();
        c->Init(0.1, 1.0 / 30, 1e-6, 1e-2, u->GetValue() < 0.25);
        chains.push_back(c);
    }
    std::vector<Ptr<GeErrorModel>> ems;
    for (uint32_t i = 0; i < wd.GetN(); ++i)
    {
        auto dev = DynamicCast<WifiNetDevice>(wd.Get(i));
        dev->GetRemoteStationManager()->AddBasicMode(WifiMode("DsssRate2Mbps"));
        auto ph = dev->GetPhy();
        ph->TraceConnectWithoutContext("PhyTxBegin", MakeBoundCallback(&TxBegin, i));
        auto em = CreateObject<GeErrorModel>();
        em->chains = &chains;
        em->self = (int)i - 1;
        em->air = &g_air;
        ph->TraceConnectWithoutContext("PhyRxPayloadBegin", MakeCallback(&GeErrorModel::PayloadBegin, em));
        ph->SetPostReceptionErrorModel(em);
        ems.push_back(em);
    }

    Server server;
    std::vector<Reader> readers(web ? n : 0);
    std::vector<Ear> ears(web ? 0 : 2 * calls);
    std::vector<Ptr<Socket>> bound;
    ApplicationContainer sink;
    if (web)
        server.Listen(host.Get(0));
    for (uint32_t i = 0; i < readers.size(); ++i)
    {
        readers[i].node = sta.Get(i);
        readers[i].server = pi.GetAddress(0);
        readers[i].u = u;
        readers[i].e = e;
        Simulator::ScheduleWithContext(sta.Get(i)->GetId(), Seconds(e->GetValue(1, 0)), &Reader::Ask, &readers[i]);
    }
    for (uint32_t i = 0; i < ears.size(); ++i)
    {
        bool down = i % 2;
        auto from = down ? host.Get(0) : sta.Get(i / 2), to = down ? sta.Get(i / 2) : host.Get(0);
        uint16_t port = 5000 + i;
        auto s = Socket::CreateSocket(to, UdpSocketFactory::GetTypeId());
        s->Bind(InetSocketAddress(Ipv4Address::GetAny(), port));
        s->SetRecvCallback(MakeCallback(&Ear::Recv, &ears[i]));
        bound.push_back(s);
        OnOffHelper talk("ns3::UdpSocketFactory", InetSocketAddress(down ? wi.GetAddress(i / 2 + 1) : pi.GetAddress(0), port));
        talk.SetConstantRate(DataRate("32kbps"), size);
        talk.SetAttribute("OnTime", StringValue("ns3::ExponentialRandomVariable[Mean=1.0]"));
        talk.SetAttribute("OffTime", StringValue("ns3::ExponentialRandomVariable[Mean=1.35]"));
        talk.SetAttribute("EnableSeqTsSizeHeader", BooleanValue(true));
        talk.Install(from).Start(Seconds(0.001 * i));
    }
    if (!web)
    {
        sink = PacketSinkHelper("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 9)).Install(sta.Get(calls));
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(wi.GetAddress(calls + 1), 9));
        bulk.SetAttribute("SendSize", UintegerValue(seg));
        bulk.Install(host.Get(0)).Start(Seconds(0.1));
    }
    Simulator::Stop(Seconds(T));
    double c0 = CpuNow();
    Simulator::Run();
    double cpu = CpuNow() - c0;
    uint64_t objects = 0, heard = 0, late = 0, bulk = web ? 0 : DynamicCast<PacketSink>(sink.Get(0))->GetTotalRx();
    double time = 0, delay = 0;
    for (auto& r : readers)
    {
        objects += r.objects;
        for (double t : r.times)
            time += t;
    }
    for (auto& r : ears)
    {
        heard += r.heard;
        late += r.late;
        for (float d : r.delays)
            delay += d;
    }
    printf("{\"web\":%u,\"run\":%u,\"frames_per_s\":%.2f,\"objects_per_s\":%.3f,\"object_s\":%.4f,\"datagrams_per_s\":%.3f,\"late_per_s\":%.4f,\"delay_ms\":%.3f,"
           "\"bulk_kbps\":%.2f,\"events\":%lu,\"cpu\":%.4f,\"simsec\":%g}\n",
           web, run, g_tx / T, objects / T, objects ? time / objects : 0, heard / T, late / T, heard ? 1e3 * delay / heard : 0, bulk * 8e-3 / T,
           (unsigned long)Simulator::GetEventCount(), cpu, T);
    Simulator::Destroy();
    return 0;
}
