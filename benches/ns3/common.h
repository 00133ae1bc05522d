// What the programs for ns-3 share (own code).
#pragma once
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/wifi-module.h"
#include <string>
#include <sys/resource.h>

// Processor time of this process so far, in seconds.
inline double CpuNow()
{
    rusage r;
    getrusage(RUSAGE_SELF, &r);
    return r.ru_utime.tv_sec + r.ru_stime.tv_sec + 1e-6 * (r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

// TCP as plain as ns-3 can be set: classic recovery, no SACK, timestamps or scaling; it never gives up.
struct PlainTcp
{
    std::string algorithm;
    uint32_t seg, win, sndBuf, delack, icw;
    double minrto;
    bool ltx;
};
inline void SetTcp(const PlainTcp& t)
{
    using namespace ns3;
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::" + t.algorithm)));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TypeId::LookupByName("ns3::TcpClassicRecovery")));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::WindowScaling", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::LimitedTransmit", BooleanValue(t.ltx));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(t.minrto)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(t.seg));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(t.seg * t.win));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(t.sndBuf));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(t.delack));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(t.icw));
    Config::SetDefault("ns3::TcpSocket::DataRetries", UintegerValue(1000000));
    Config::SetDefault("ns3::TcpSocket::ConnCount", UintegerValue(1000000));
}

// Queues that no frame grows too old in, RTS always or never, and the tries of a frame (3.37: of short and long ones).
inline void SetMac(bool rts, uint32_t frl, uint32_t ssrc, uint32_t slrc)
{
    using namespace ns3;
    Config::SetDefault("ns3::WifiMacQueue::MaxDelay", TimeValue(Seconds(3600)));
    Config::SetDefault("ns3::WifiRemoteStationManager::RtsCtsThreshold", UintegerValue(rts ? 0 : 65535));
#if NS3VER >= 344
    (void)ssrc;
    (void)slrc;
    Config::SetDefault("ns3::WifiMac::FrameRetryLimit", UintegerValue(frl));
#else
    (void)frl;
    Config::SetDefault("ns3::WifiRemoteStationManager::MaxSsrc", UintegerValue(ssrc));
    Config::SetDefault("ns3::WifiRemoteStationManager::MaxSlrc", UintegerValue(slrc));
#endif
}
inline void SetMacQueue(uint32_t packets)
{
    using namespace ns3;
    Config::SetDefault("ns3::WifiMacQueue::MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, packets)));
}
