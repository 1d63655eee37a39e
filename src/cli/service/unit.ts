/** Texts of a service: a systemd unit, and a launchd property list. */

import { FETCHES } from '../../config.ts'

export interface ServiceOptions {
  /** Full path. */
  program: string
  user: string
  dataFolder: string
  environmentFile: string
  /** Flags of `tollgate serve`. */
  flags: readonly string[]
  /** Whether model servers use graphics cards. */
  hasDevices: boolean
}

export const MARK = '# Written by: tollgate service install'

/** Only graphics drivers need devices. */
const devices = (hasDevices: boolean) => (hasDevices ? 'PrivateDevices=no' : 'PrivateDevices=yes')

/**
 * Not restricted: executable memory, which the JavaScript compiler writes, and the network, since upstreams may be
 * anywhere. See systemd.exec(5) and systemd.service(5).
 */
export const toUnit = ({ program, user, environmentFile, dataFolder, flags, hasDevices }: ServiceOptions): string => `\
${MARK}
[Unit]
Description=Tollgate, gateway to language models
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
NotifyAccess=main
WatchdogSec=60
ExecStart=${[program, 'serve', '--data', dataFolder, ...flags].map(toWord).join(' ')}
ExecReload=${[program, 'restart', '--environment', '--data', dataFolder, '--', ...flags].map(toWord).join(' ')}
Restart=on-failure
RestartSec=2
OOMPolicy=continue
TimeoutStartSec=15min
TimeoutStopSec=60
User=${user}
StateDirectory=tollgate
StateDirectoryMode=0700
WorkingDirectory=${dataFolder}
EnvironmentFile=-${environmentFile}
LimitNOFILE=65536
Environment=${FETCHES.variable}=${FETCHES.raised}
UMask=0077

# Ports below 1024
AmbientCapabilities=CAP_NET_BIND_SERVICE
CapabilityBoundingSet=CAP_NET_BIND_SERVICE
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
${devices(hasDevices)}
ProtectProc=invisible
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
RemoveIPC=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
`

/** systemd splits at spaces, and expands `%` and `$`. */
const toWord = (word: string) => {
  const escaped = word.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('%', '%%').replaceAll('$', '$$$$')
  return /^[\w./:,@=+%$*[\]-]+$/.test(escaped) ? escaped : `"${escaped}"`
}

export const toPropertyList = ({ program, dataFolder, flags }: ServiceOptions): string => `\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>tollgate</string>
  <key>ProgramArguments</key>
  <array>
${[program, 'serve', '--data', dataFolder, ...flags].map((word) => `    <string>${toXml(word)}</string>`).join('\n')}
  </array>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>ExitTimeOut</key>
  <integer>60</integer>
  <key>SoftResourceLimits</key>
  <dict>
    <key>NumberOfFiles</key>
    <integer>65536</integer>
  </dict>
  <key>Umask</key>
  <integer>63</integer>
  <key>StandardErrorPath</key>
  <string>${toXml(dataFolder)}/tollgate.log</string>
</dict>
</plist>
`

const toXml = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
