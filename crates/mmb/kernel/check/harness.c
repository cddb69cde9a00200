// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * The calls of native.h with pseudo-random packets, often cut or wrong, each in memory of its
 * own size, and with all that rules and connections may do to them. Sanitizers see what they
 * read and write; here is checked that checksums that were right stay right, and that a
 * packet has the length that its header says.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../native.h"

#define PACKETS	200000
#define ROOM	40

static u64 state = 0x9e3779b97f4a7c15;

static u32 drawn(u32 below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (u32)((state >> 32) * below >> 32);
}

static void fill(u8 *to, u32 len)
{
	while (len--)
		*to++ = (u8)drawn(256);
}

static u32 sum_of(const u8 *bytes, u32 len, u32 sum)
{
	u32 i;

	for (i = 0; i < len; i++)
		sum += i & 1 ? bytes[i] : (u32)bytes[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* The sum over a whole segment or datagram of IPv4 with its pseudo header. */
static u32 sum_above(const u8 *bytes, u32 len, u32 header_len)
{
	u32 sum = sum_of(bytes + 12, 8, bytes[9] + len - header_len);

	return sum_of(bytes + header_len, len - header_len, sum);
}

static void put(u8 *at, u32 sum)
{
	at[0] = (u8)(~sum >> 8);
	at[1] = (u8)~sum;
}

/* A packet of any kind; of whole ones over IPv4 the checksums are right. */
static u32 make(u8 *bytes, u32 *whole)
{
	static const u8 protocols[] = { 6, 6, 6, 17, 17, 1, 58, 44, 0, 60, 51, 47 };
	u32 options = drawn(3) ? 0 : 4 * drawn(11), v4 = drawn(3) > 0;
	u32 header_len = v4 ? 20 + options : 40, above = 8 + drawn(60);
	u32 len = header_len + above, tcp_len = 20 + 4 * drawn(11), i;

	fill(bytes, len);
	if (v4) {
		bytes[0] = (u8)(0x40 | header_len / 4);
		bytes[2] = (u8)(len >> 8);
		bytes[3] = (u8)len;
		bytes[6] = drawn(5) ? 0 : (u8)drawn(64);
		bytes[7] = bytes[6] ? (u8)drawn(3) : 0;
		bytes[9] = protocols[drawn(7)];
	} else {
		bytes[0] = 0x60;
		bytes[4] = 0;
		bytes[5] = (u8)above;
		bytes[6] = protocols[drawn(12)];
	}
	if (bytes[v4 ? 9 : 6] == 6) {
		bytes[header_len + 12] = (u8)(tcp_len / 4 << 4);
		/* options that can be read, often enough */
		for (i = 20; i + 4 <= tcp_len && i + 4 <= above && drawn(8); i += 4) {
			static const u8 kinds[] = { 1, 2, 3, 4, 5, 8, 30, 99 };

			bytes[header_len + i] = kinds[drawn(8)];
			bytes[header_len + i + 1] = 4;
		}
	}
	if (bytes[v4 ? 9 : 6] == 1 && drawn(2)) {
		bytes[header_len] = drawn(2) ? 3 : 8;
		bytes[header_len + 1] = 0;
		bytes[header_len + 8] = 0x45;
	}
	*whole = v4 && !bytes[6] && (bytes[9] == 6 || bytes[9] == 17) &&
		 above >= (bytes[9] == 6 ? tcp_len : 8);
	if (v4) {
		bytes[10] = bytes[11] = 0;
		put(bytes + 10, sum_of(bytes, header_len, 0));
	}
	if (*whole) {
		u8 *sum = bytes + header_len + (bytes[9] == 6 ? 16 : 6);

		sum[0] = sum[1] = 0;
		put(sum, sum_above(bytes, len, header_len));
		if (!sum[0] && !sum[1])
			sum[0] = sum[1] = 0xff;
	}
	return len;
}

static void change(struct nw_skb *skb, struct nw_mmb_packet *p)
{
	struct nw_mmb_change changes[3];
	struct nw_mmb_set sets[3];
	u32 i, k;

	for (i = 0; i < 3; i++) {
		/* addresses, the identification, ports: what leaves the reading as it is */
		sets[i].ip = (u8)drawn(2);
		sets[i].at = (u16)(sets[i].ip ? 12 + 2 * drawn(4) : 2 * drawn(2));
		sets[i].layer = sets[i].ip ? NW_MMB_IP4 : drawn(2) ? NW_MMB_TCP : NW_MMB_UDP;
		sets[i].keep = (u16)drawn(65536);
		sets[i].value = (u16)(drawn(65536) & ~sets[i].keep);
	}
	if (nw_mmb_native_set(skb, p, sets, drawn(4)))
		abort();
	if (p->layers & NW_MMB_TCP && !nw_mmb_native_list_options(skb, p)) {
		for (i = 0; i < 3; i++) {
			changes[i].what = (u8)drawn(4);
			changes[i].kind = (u8)drawn(10);
			changes[i].len = changes[i].what == NW_MMB_KEEP ? 32 : (u8)drawn(39);
			for (k = 0; k < NW_MMB_OPTIONS; k++)
				changes[i].bytes[k] = (u8)drawn(256);
		}
		nw_mmb_native_change_options(p, changes, drawn(4));
		nw_mmb_native_put_options(skb, p);
	}
}

static void connect(struct nw_skb *skb, struct nw_mmb_packet *p)
{
	struct nw_mmb_tracked c;
	struct nw_mmb_mapping m;
	u32 i;

	memset(&c, 0, sizeof(c));
	if (nw_mmb_native_key(skb, p)) {
		nw_mmb_native_left(skb, p);
		for (i = drawn(5); i > 0; i--) {
			memset(&m, 0, sizeof(m));
			m.what = (u8)drawn(14);
			m.drawn = (u8)drawn(2);
			m.number = drawn(65536);
			fill(m.address, 16);
			if (nw_mmb_native_is_there(p, &m))
				nw_mmb_native_map(p, &c, &m, drawn(0xffffffff));
		}
		if (nw_mmb_native_begin(skb, p, &c))
			abort();
		if (!drawn(4))
			nw_mmb_native_next_port(p, &c);
		p->forward = p->flow;
		p->reverse = 0;
		if (nw_mmb_native_translate(skb, p, &c))
			abort();
		if (nw_mmb_native_is_over(p, &c, 0) && !(c.flags[0] & 5))
			abort();
		nw_mmb_native_came(p, &c, drawn(2));
		if (!nw_mmb_native_kept_for(&c))
			abort();
		nw_mmb_native_is_assured(&c);
	}
	if (p->layers & (NW_MMB_ICMP | NW_MMB_ICMP6) && nw_mmb_native_quotes(skb, p)) {
		p->forward = p->left;
		fill((u8 *)&c, sizeof(c));
		p->reverse = drawn(2);
		if (nw_mmb_native_translate_error(skb, p, &c))
			abort();
	}
}

int main(void)
{
	static u8 packet[1024];
	static struct nw_mmb_packet p;
	u32 n, read = 0, checked = 0;

	for (n = 0; n < PACKETS; n++) {
		u32 whole, len = make(packet, &whole), cut = drawn(4) ? 0 : drawn(len), above;
		struct nw_skb skb = { .mtu = drawn(2) ? 60 + drawn(100) : 65535 };
		u8 some[8];

		if (cut)
			whole = 0;
		skb.stored = len - cut;
		skb.room = skb.stored + ROOM;
		skb.len = skb.stored;
		skb.bytes = malloc(skb.room ? skb.room : 1);
		memcpy(skb.bytes, packet, skb.stored);
		p.now = n;
		if (!nw_mmb_native_read(&skb, &p, 1 + drawn(2), 1)) {
			read++;
			nw_mmb_native_is_tiny(&p);
			nw_mmb_native_fragment(&p);
			change(&skb, &p);
			if (!drawn(8)) {
				fill(some, 8);
				nw_mmb_native_set_payload(&skb, &p, p.layers & NW_MMB_TCP ? NW_MMB_TCP :
							  NW_MMB_IP4, some, drawn(9));
				whole = whole && p.layers & NW_MMB_TCP;
			}
			if (!p.later)
				connect(&skb, &p);
			if (whole) {
				above = p.header_len;
				checked++;
				if (skb.len != ((u32)skb.bytes[2] << 8 | skb.bytes[3]) ||
				    sum_of(skb.bytes, above, 0) != 0xffff ||
				    sum_above(skb.bytes, skb.len, above) != 0xffff) {
					printf("packet %u\n", n);
					return 1;
				}
			}
		}
		free(skb.bytes);
	}
	printf("%u read, %u checked\n", read, checked);
	return read < PACKETS / 2 || checked < PACKETS / 10;
}
