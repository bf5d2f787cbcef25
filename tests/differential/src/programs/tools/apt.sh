# apt: update, update without changes, download, a download that goes on from its first part.
mkdir -p root/etc/apt/apt.conf.d root/etc/apt/preferences.d root/etc/apt/sources.list.d root/var/lib/dpkg \
    root/var/lib/apt/lists/partial root/var/cache/apt/archives/partial
: > root/var/lib/dpkg/status
cat > configuration <<C
Dir "$PWD/root";
Dir::State::status "$PWD/root/var/lib/dpkg/status";
Dir::Bin::methods "/usr/lib/apt/methods";
APT::Sandbox::User "root";
APT::Architecture "amd64";
Acquire::https::CAInfo "$CA";
Acquire::Languages "none";
Acquire::Retries "0";
C
export APT_CONFIG="$PWD/configuration"
echo "deb [trusted=yes] $BASE/cut/apt$WAY/apt stable main" > root/etc/apt/sources.list
apt-get -q update > output 2>&1
echo "update $? $(cat root/var/lib/apt/lists/*_Packages root/var/lib/apt/lists/*_Release | sha256sum)"
apt-get -q update > output 2>&1
echo "again $? $(grep -c ^Hit output)"
for try in 1 2; do apt-get -q -y -d install tool > output 2>&1; result=$?; done
echo "install $result $(sum root/var/cache/apt/archives/tool_1.0_all.deb)"
